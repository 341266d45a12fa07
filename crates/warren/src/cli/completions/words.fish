
function __warren_ask
    set -l line (commandline -opc) (commandline -ct)
    set -g __warren_found ($line[1] complete-words -- $line 2>/dev/null)
    test -n "$__warren_found"
end

complete -c warren -f -k -n __warren_ask -a '(printf "%s\n" $__warren_found)'
# The value of an option is asked for under the option's own name.
for option in template from since good bad into
    complete -c warren -l $option -x -k -n __warren_ask -a '(printf "%s\n" $__warren_found)'
end
