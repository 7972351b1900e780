no_arguments "$@"
need_foreign arm64
for purpose in "${!packages[@]}"; do
        [[ $purpose == @(bench|node) ]] || need "$purpose"
done
need_node
want bench
