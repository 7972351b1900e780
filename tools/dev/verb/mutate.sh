# tests/mutate/README.md explains the output.
need build test
exec /usr/bin/python3 tests/mutate/mutate.py --build "$(realpath -m "$build-mutate")" "$@"
