
_warren() {
    local -a found asked
    local entry
    found=("${(@f)$("${words[1]}" complete-words -- "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    for entry in "${found[@]}"; do
        # A colon would end the word.
        [[ -z $entry ]] || asked+=("${${entry%%$'\t'*}//:/\\:}:${entry#*$'\t'}")
    done
    if (( ${#asked} )); then
        _describe -V warren asked
    else
        _warren_known "$@"
    fi
}

if [ "$funcstack[1]" = "_warren" ]; then
    _warren "$@"
else
    compdef _warren warren
fi
