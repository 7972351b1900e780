# Building the wheel needs the library in the build folder; importing the package needs it installed, unless --whole puts
# it into the wheel. A wheel of another processor is a whole one.
whole='' cross=''
if [[ ${1:-} == --whole ]]; then
        whole=1
        shift
fi
if [[ ${1:-} == aarch64 ]]; then
        whole=1
        cross=$1
        shift
fi
(($# <= 1)) || usage_error "unexpected argument '$2'"
folder=${1:-$build/wheel}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -rL bindings/python "$scratch/tslab" # pip leaves files beside the source
settings=(CFLAGS="-I$PWD/libclient")

# Python of the other processor, which would not go beside our own, is unpacked: for its header, and for a try.
unpack_python() {
        local version
        version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        (cd "$scratch" && apt-get -q download {libpython"$version"-{dev,minimal,stdlib},python"$version"-minimal}:arm64 \
                {libexpat1,python3-cffi-backend}:arm64)
        local package
        for package in "$scratch"/*.deb; do
                dpkg -x "$package" "$scratch/foreign"
        done
        python=$scratch/foreign/usr/bin/python$version
}

try_wheel() {
        local root=$scratch/foreign try=$scratch/try
        /usr/bin/python3 -m zipfile -e "$folder"/tslab-*_"$cross".whl "$try"
        "qemu-$cross-static" -E PYTHONHOME="$root/usr" -E PYTHONPATH="$try:$root/usr/lib/python3/dist-packages" \
                -E LD_LIBRARY_PATH="$root/lib/$cross-linux-gnu:$root/usr/lib/$cross-linux-gnu" "$python" -c '
import platform, tslab
with tslab.create(size=1 << 20) as pool:
    m = tslab.Map(pool, "m")
    m[b"a"] = b"1"
    assert m[b"a"] == b"1"
print("dev: the wheel was tried on an emulated", platform.machine())'
}

if [[ $cross ]]; then
        need_foreign arm64
        need build wheel cross
        configure "$build-$cross" --cross-file "tools/dev/cross/$cross.ini" -D{go,node,php,python}=disabled >&2
        ninja -C "$build-$cross" libclient/libtslab-bundled.so.0.1.0 >&2
        libraries=$(realpath "$build-$cross")/libclient
        unpack_python
        settings=(CFLAGS="-I$PWD/libclient -I$scratch/foreign/usr/include" CC="$cross-linux-gnu-gcc"
                LDSHARED="$cross-linux-gnu-gcc -shared" _PYTHON_HOST_PLATFORM="linux-$cross"
                TSLAB_LDD="qemu-$cross-static /lib/ld-linux-$cross.so.1 --list")
else
        need build wheel
        compile "$build" >&2
        libraries=$(realpath "$build")/libclient
fi
env TSLAB_LIBRARY="${whole:+$libraries/libtslab-bundled.so.0}" \
        TSLAB_LICENSES=/usr/share/doc/libprotobuf-c-dev/copyright \
        LDFLAGS="-L$libraries" "${settings[@]}" /usr/bin/python3 -m pip wheel --no-deps --no-build-isolation \
        --wheel-dir "$folder" "$scratch/tslab"
[[ ! $cross ]] || try_wheel
