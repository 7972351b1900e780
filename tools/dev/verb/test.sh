test_sanitized() {      # [MESON TEST OPTION...]
        # abort: exit(1) would look like a failure that the test expects of its child.
        export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1:abort_on_error=1}
        export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1:abort_on_error=1}
        export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}

        # The sanitizers of gcc 12 give up at random where the kernel randomises more address bits than they know of.
        # Some containers forbid turning that off.
        ! setarch --addr-no-randomize true 2>/dev/null || launcher=(setarch --addr-no-randomize)

        # Not compiled as a whole: 'meson test' builds the programs of the tests that it runs, and what they need.
        # The program brings the sanitizers' symbols, the library leaves them undefined: b_lundef would reject that.
        configure "$build-asan" -Db_sanitize=address,undefined -Db_lundef=false
        run_tests "$build-asan" "$@" --no-suite no-asan
        configure "$build-tsan" -Db_sanitize=thread -Db_lundef=false
        run_tests "$build-tsan" "$@" --suite threads
}

mode=default
for argument; do
        case $argument in
        --quick | --full)
                [[ $mode == default ]] || usage_error "--quick and --full exclude each other"
                mode=${argument#--}
                ;;
        -*) usage_error "unknown option '$argument'" ;;
        *) names+=("$argument") ;;
        esac
done

need build test
need_node
[[ $mode != full ]] || need full package
compile "$build"
check_names

# The time limits are for an idle machine: on a slow or busy one, a test that passes may take longer.
patiently=(--timeout-multiplier 5)

case $mode in
quick) run_tests "$build" --setup default "${patiently[@]}" ;;
full)
        run_tests "$build" --setup full
        test_sanitized --setup full
        ;;
default)
        run_tests "$build" --setup default "${patiently[@]}"
        # A suite named on the command line overrides the setup's list of suites to leave out.
        test_sanitized --setup default --no-suite slow "${patiently[@]}"
        ;;
esac
finish_tests
