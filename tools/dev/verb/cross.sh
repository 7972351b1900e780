# Builds for another processor, and runs the tests that an emulator can run.

[[ ${1:-} ]] || usage_error "a processor is missing: cross aarch64"
[[ $1 == aarch64 ]] || usage_error "cross knows aarch64 only"
cross=$1
shift
names=("$@")

# The libraries of the other processor stand beside our own.
if command -v dpkg >/dev/null && ! dpkg --print-foreign-architectures | grep -qx arm64; then
        as_root=()
        ((EUID == 0)) || as_root=(sudo)
        "${as_root[@]}" dpkg --add-architecture arm64
fi
need build test cross

configure "$build-$cross" --cross-file "tools/dev/cross/$cross.ini" -D{go,node,php,python}=disabled
ninja -C "$build-$cross"
if ((${#names[@]} == 0)); then
        mapfile -t names < <(meson test -C "$build-$cross" --list 2>/dev/null | sed -nE 's/.* \/ ((unit|model)-.*)/\1/p' |
                grep -vxFf <(sed -E 's/[[:space:]]*#.*//; /^$/d; s/[[:space:]].*//' "tools/dev/cross/$cross.without"))
fi
# An emulated instruction takes ten to fifty real ones.
run_tests "$build-$cross" --timeout-multiplier 30
finish_tests
