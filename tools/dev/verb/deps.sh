no_arguments "$@"
for purpose in "${!packages[@]}"; do
        [[ $purpose == bench ]] || need "$purpose"
done
want bench
