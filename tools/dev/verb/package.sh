# Packages the files that git sees, from a copy: debhelper wants debian/ in the root of the tree.
folder=packages
options=()
purposes=(build package)
if [[ ${1:-} == aarch64 ]]; then
        # Packages of PHP and Python that a build for another processor needs do not go beside our own.
        folder=packages-arm64
        options=(--host-arch=arm64 --build-profiles=cross,nocheck,nopython,pkg.tslab.nophp)
        purposes+=(cross)
        need_foreign arm64
        shift
fi
no_arguments "$@"
need "${purposes[@]}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/tslab"
git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar -x -C "$scratch/tslab"
cp -r systemd/debian "$scratch/tslab/debian"
(cd "$scratch/tslab" && dpkg-buildpackage --no-sign --build=binary --jobs=auto "${options[@]}")
rm -rf "$build/$folder"
mkdir -p "$build/$folder"
cp "$scratch"/*.deb "$build/$folder"
lintian --fail-on error --allow-root "$scratch"/*.changes
