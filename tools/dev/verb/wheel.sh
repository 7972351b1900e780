# Building the wheel needs the library in the build folder; importing the package needs it installed.
(($# <= 1)) || usage_error "unexpected argument '$2'"
folder=${1:-$build/wheel}

need build wheel
compile "$build" >&2
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r libclient/python "$copy/tslab" # pip leaves files beside the source
CFLAGS="-I$PWD/libclient" LDFLAGS="-L$(realpath "$build")/libclient" /usr/bin/python3 -m pip wheel --no-deps \
        --no-build-isolation --wheel-dir "$folder" "$copy/tslab"
