# Packages the files that git sees, from a copy: debhelper wants debian/ in the root of the tree.
no_arguments "$@"
need build package
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/tslab"
git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar -x -C "$scratch/tslab"
cp -r systemd/debian "$scratch/tslab/debian"
(cd "$scratch/tslab" && dpkg-buildpackage --no-sign --build=binary --jobs=auto)
rm -rf "$build/packages"
mkdir -p "$build/packages"
cp "$scratch"/*.deb "$build/packages"
lintian --fail-on error --allow-root "$scratch"/*.changes
