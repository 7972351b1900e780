no_arguments "$@"
need build test
configure "$build"
ninja -C "$build" lint-inputs
python3 tests/lint/counts.py . circles folders headless heads names rooms
run_tests "$build" --suite lint
finish_tests
