# FOLDER/found keeps the results: TARGET is a folder of inputs that reach new code, the files beside it are inputs that
# failed. Move an input that failed to tests/fuzz/corpus once it passes.
fuzz() {                # TARGET SECONDS
        local corpus=tests/fuzz/corpus/$1 found=$build-fuzz/found

        [[ -d $corpus ]] || die "no such fuzz target: $1"
        mkdir -p "$found/$1"
        ninja -C "$build-fuzz" "tests/fuzz/fuzz-$1"
        echo "dev: fuzzing $1 for $2 seconds" >&2
        "$build-fuzz/tests/fuzz/fuzz-$1" -max_total_time="$2" -timeout=20 -max_len=2048 -print_final_stats=1 \
                -artifact_prefix="$found/$1-" "$found/$1" "$corpus"
}

seconds=${2:-60}
targets=("${1:-}")

(($# <= 2)) || usage_error "unexpected argument '$3'"
[[ $seconds =~ ^[1-9][0-9]*$ ]] || usage_error "not a number of seconds: '$seconds'"
need build test
CC=clang-14 configure "$build-fuzz" -Dfuzz=true -Dpython=disabled -Db_sanitize=address,undefined -Db_lundef=false
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
[[ -n ${targets[0]} ]] || mapfile -t targets < <(ls tests/fuzz/corpus)
for target in "${targets[@]}"; do
        fuzz "$target" "$seconds"
done
