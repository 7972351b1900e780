# Lines of shm and libclient, the code on both sides of the arena. Killed children write no counts.
folder=$build-coverage

no_arguments "$@"
need build test coverage
compile "$folder" -Db_coverage=true -Dc_args=-fprofile-update=atomic -Db_lundef=false -Dpython=disabled
find "$folder" -name '*.gcda' -delete
mapfile -t names < <(python3 tools/meson-tests.py covered "$folder")
run_tests "$folder" --timeout-multiplier 5
gcovr --root . --object-directory "$folder" --filter 'shm/' --filter 'libclient/' \
        --print-summary --html-details "$folder/coverage.html" --json-summary \
        "$folder/coverage.json" --fail-under-line 90
echo "dev: line by line in $folder/coverage.html"
finish_tests
