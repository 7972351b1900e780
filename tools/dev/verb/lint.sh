if [[ ${1:-} == --tidy ]]; then
        no_arguments "${@:2}"
        need build tidy
        configure "$build" >&2
        ninja -C "$build" proto/tslab.pb-c.h >&2
        exec python3 tools/tidy.py "$build"
fi

no_arguments "$@"
need build test
configure "$build"
ninja -C "$build" lint-inputs
run_tests "$build" --suite lint
finish_tests
