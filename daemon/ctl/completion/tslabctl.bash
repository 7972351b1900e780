# bash completion for tslabctl(1)

_tslabctl() {
        local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} word verb= sub= i skip=
        local options='--pool --socket --json --no-legend --no-pager --help --version'
        local verbs='list status stats epoch clients roots trim check metrics leaks suggest'
        local epoch_verbs='list advance close reserve label'

        COMPREPLY=()
        for ((i = 1; i < COMP_CWORD; i++)); do
                word=${COMP_WORDS[i]}
                if [[ $skip ]]; then
                        skip=
                elif [[ $word == --pool || $word == --socket ]]; then
                        skip=1
                elif [[ $word != -* && -z $verb ]]; then
                        verb=$word
                elif [[ $word != -* && -z $sub ]]; then
                        sub=$word
                fi
        done

        case $prev in
        --pool)
                mapfile -t COMPREPLY < <(compgen -W "$(tslabctl list --no-legend 2>/dev/null |
                        while read -r word _; do echo "$word"; done)" -- "$cur")
                return
                ;;
        --socket)
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                return
                ;;
        esac

        case $verb:$sub in
        epoch:close) options+=' --revoke --wait' ;;
        check:*) options+=' --repair' ;;
        metrics:*) options+=' --all --http' ;;
        esac

        if [[ $cur == -* ]]; then
                mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
        elif [[ -z $verb ]]; then
                mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$cur")
        elif [[ $verb == epoch && -z $sub ]]; then
                mapfile -t COMPREPLY < <(compgen -W "$epoch_verbs" -- "$cur")
        fi
}

complete -F _tslabctl tslabctl
