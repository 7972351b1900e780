# Running tests with meson, and adding up their results over several builds.

names=()                # tests asked for; with none, all tests of the suites run
logs=()                 # one testlog.json of each run so far
unexplained=0           # runs in which meson failed though no test did
launcher=()             # a command that runs 'meson test'

run_tests() {           # FOLDER [MESON TEST OPTION...]
        local folder=$1 status=0
        shift

        # The log's name depends on the setup. Logs of earlier runs go, so that all logs found below are of this run.
        rm -f "$folder"/meson-logs/testlog*.json
        # Tests wait for as long as they work: two for each processor.
        "${launcher[@]}" meson test -C "$folder" --print-errorlogs --num-processes $((2 * $(nproc))) \
                "$@" "${names[@]}" || status=$?

        mapfile -t -O "${#logs[@]}" logs < <(compgen -G "$folder/meson-logs/testlog*.json" || true)
        ((status == 0)) || grep -Eqs '"result": "(FAIL|TIMEOUT|INTERRUPT|ERROR|UNEXPECTEDPASS)"' \
                "$folder"/meson-logs/testlog*.json || unexplained=$((unexplained + 1))
}

check_names() {         # meson skips a misspelt test name in silence
        ((${#names[@]} == 0)) || python3 tools/meson-tests.py known "$build" "${names[@]}" || exit 2
}

finish_tests() {        # CI reads the last line, "N passed, N failed"
        ((unexplained == 0)) || echo "dev: 'meson test' itself failed in $unexplained run(s)" >&2
        python3 tools/meson-tests.py sum "${logs[@]}" || exit 1
        ((unexplained == 0)) || exit 1
}
