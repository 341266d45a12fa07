
_warren_and_words() {
    local line begun word words=()
    # The line as it was typed: bash itself splits at more than spaces.
    read -ra line <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && line+=("")
    begun=${line[-1]}
    _warren "$@"
    while IFS=$'\t' read -r word _; do
        # What stands before a colon is not replaced.
        [[ $COMP_WORDBREAKS == *:* && $begun == *:* ]] && word=${word#"${begun%:*}:"}
        words+=("$word")
    done < <("${line[0]}" complete-words -- "${line[@]}" 2>/dev/null)
    ((${#words[@]} == 0)) || COMPREPLY=("${words[@]}")
}

complete -F _warren_and_words -o nosort -o bashdefault -o default warren
