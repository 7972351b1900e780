# Builds for another processor, and runs the tests that an emulator can run.

[[ ${1:-} ]] || usage_error "a processor is missing: cross aarch64"
[[ $1 == aarch64 ]] || usage_error "cross knows aarch64 only"
cross=$1
shift
listed=false pick=-xFf
if [[ ${1:-} == --listed ]]; then
        listed=true
        shift
fi
names=("$@")

# The tests of the list that are left out: their reason is `slow`, or a thing that the emulator lacks.
left_out() {            # LACKING THING...
        awk -v lacks="slow $*" 'BEGIN { for (n = split(lacks, names, " "); n > 0; n--) is[names[n]] }
                { sub(/#.*/, "") } $2 in is { print $1 }' "tests/emulator/$cross.without"
}

# The libraries of the other processor stand beside our own.
need_foreign arm64
need build test cross

# The emulator is asked before the long build.
configure "$build-$cross" --cross-file "tools/dev/cross/$cross.ini" -D{go,php,python}=disabled
"$cross-linux-gnu-gcc" -D_GNU_SOURCE -o "$build-$cross/lacks" tests/emulator/lacks.c
lacks=$("qemu-$cross-static" "$build-$cross/lacks" | paste -sd' ')
[[ " $lacks " != *' exec '* ]] ||
        die "the kernel does not start programs of $cross: mount binfmt_misc on /proc/sys/fs/binfmt_misc, and write" \
                "the line of /usr/lib/binfmt.d/qemu-$cross.conf into its file 'register'"
echo "dev: the emulator lacks: ${lacks:-nothing}"
((${#names[@]} == 0)) || python3 tools/meson-tests.py known "$build-$cross" "${names[@]}" || exit 2
ninja -C "$build-$cross"

if ((${#names[@]} == 0)); then
        # shellcheck disable=SC2086 # split into words on purpose
        mapfile -t without < <(left_out $lacks)
        mapfile -t names < <(python3 tools/meson-tests.py cross "$build-$cross")
        $listed || pick=-vxFf
        mapfile -t names < <(printf '%s\n' "${names[@]}" | grep "$pick" <(printf '%s\n' "${without[@]}"))
fi
if $listed; then
        run_tests "$build-$cross" --timeout-multiplier 3
        python3 tools/meson-tests.py passed "${logs[@]}" | sed 's/^/dev: it passed, though it is listed: /'
else
        # An emulated instruction takes ten to fifty real ones.
        run_tests "$build-$cross" --timeout-multiplier 30
        finish_tests
fi
