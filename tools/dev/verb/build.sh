no_arguments "$@"
need build
compile "$build"
