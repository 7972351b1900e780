no_arguments "$@"
for purpose in "${!packages[@]}"; do
        [[ $purpose == @(bench|node) ]] || need "$purpose"
done
need_node
want bench
