# bash completion for tslabctl(1). What there is, it says itself: in its help.

# PROGRAM SECTION [VERB...]: the lines of a section of its help
_tslabctl_help() {
        "$1" "${@:3}" --help 2>/dev/null | sed -n "/^$2:/,/^\$/s/^  //p"
}

# PROGRAM [VERB...]: the names of options
_tslabctl_options() {
        _tslabctl_help "$1" Options "${@:2}" | sed -n 's/^\(-[a-z], \)\{0,1\}\(--[a-z-]*\).*/\2/p'
}

# PROGRAM POOL: the names of its maps. A pool that is idle is not asked, which would start it.
_tslabctl_maps() {
        "$1" list --no-legend 2>/dev/null | grep -q "^$2  *running" &&
                "$1" --pool "$2" maps --no-legend 2>/dev/null | sed 's/  .*//'
}

_tslabctl() {
        local program=$1 cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
        local valued word i skip= choices= pool=${TSLAB_POOL:-default}
        local -a verbs=()

        # "--socket PATH " and so on; of "-d, --delay SEC", both
        valued=$(_tslabctl_help "$program" Options |
                sed -n 's/^\(-[a-z]\), \(--[a-z-]*\)\( [A-Z][A-Z]*\) .*/\1\3 \n\2\3 /p
                        s/^\(--[a-z-]* [A-Z][A-Z]*\) .*/\1 /p')
        for ((i = 1; i < COMP_CWORD; i++)); do
                word=${COMP_WORDS[i]}
                if [[ $skip ]]; then
                        [[ ${COMP_WORDS[i - 1]} != --pool ]] || pool=$word
                        skip=
                elif [[ $word == -* ]]; then
                        [[ $'\n'$valued != *$'\n'"$word "* ]] || skip=1
                else
                        verbs+=("$word")
                fi
        done

        COMPREPLY=()
        case $'\n'$valued in
        *$'\n'"$prev "PATH*|*$'\n'"$prev "FILE*)
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                return
                ;;
        *$'\n'"$prev "*)
                [[ $prev != --pool ]] || choices=$("$program" list --no-legend 2>/dev/null | cut -d ' ' -f 1)
                [[ $prev != --by ]] || choices='place epoch class'
                [[ $prev != --sort ]] || choices='cached held pending allocs frees records threads client pid user command role since'
                mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$cur")
                return
                ;;
        esac

        if [[ $cur == -* ]]; then
                choices=$(_tslabctl_options "$program" "${verbs[@]:0:2}")
                [[ $choices ]] || choices=$(_tslabctl_options "$program" "${verbs[@]:0:1}")
        elif ((${#verbs[@]} == 0)); then
                choices=$(_tslabctl_help "$program" Verbs | sed 's/ .*//' | sort -u)
        elif [[ ${#verbs[@]} == 1 && ${verbs[0]} == @(keys|get|put|delete) || "${verbs[*]}" == maps\ @(set|top|clear|remove) ||
                ${#verbs[@]} -ge 2 && ${verbs[0]} == @(dump|load) ]]; then
                choices=$(_tslabctl_maps "$program" "$pool")
        elif [[ ${#verbs[@]} == 1 && ${verbs[0]} == @(dump|load) ]]; then
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                return
        elif ((${#verbs[@]} == 1)); then
                choices=$(_tslabctl_help "$program" Verbs "${verbs[0]}" | sed -n "s/^${verbs[0]} \([a-z]*\).*/\1/p")
        fi
        mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$cur")
}

complete -F _tslabctl tslabctl
