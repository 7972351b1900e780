# Building the wheel needs the library in the build folder; importing the package needs it installed, unless --whole puts
# it into the wheel.
whole=
if [[ ${1:-} == --whole ]]; then
        whole=1
        shift
fi
(($# <= 1)) || usage_error "unexpected argument '$2'"
folder=${1:-$build/wheel}

need build wheel
compile "$build" >&2
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -rL bindings/python "$copy/tslab" # pip leaves files beside the source
library=$(realpath "$build")/libclient/libtslab-bundled.so.0
TSLAB_LIBRARY=${whole:+$library} TSLAB_LICENSES=/usr/share/doc/libprotobuf-c-dev/copyright CFLAGS="-I$PWD/libclient" LDFLAGS="-L$(realpath "$build")/libclient" /usr/bin/python3 -m pip wheel --no-deps \
        --no-build-isolation --wheel-dir "$folder" "$copy/tslab"
