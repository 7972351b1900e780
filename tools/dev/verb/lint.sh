no_arguments "$@"
need build test
configure "$build"
ninja -C "$build" lint-inputs
run_tests "$build" --suite lint
finish_tests
