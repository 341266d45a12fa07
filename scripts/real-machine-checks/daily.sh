# Every day: names, a project's directory, several servers, habits and completions, with a program in
# the background and another owner at work.
serve_by_hand
key=$(warren keys create another --owner another)
theirs() { WARREN_API_KEY=$key timeout 60 warren "$@"; }
check "another owner has a sandbox of the same name" theirs create --name web
check "and works in it" theirs exec -d web sh -c 'while :; do date >file; sleep 0.5; done'

check "a sandbox has a name" warren create --name web
ends 125 sandbox_name_taken "which no second one gets" warren create --name web
check "a server runs in it" warren exec -d web python3 -m http.server 8000
is user "a command needs no dashes" warren exec web id -un
is /root "and takes Docker's flags" warren exec -u root -w /root -e A=1 web pwd
is user "the last one is @last" warren exec @last id -un
check "it is chosen as the default" warren default web
says http.server "which commands that look take" warren ps
ends 2 'warren ls' "another tool's word gets a suggestion" warren containers
says ' web ' "it is listed by its name" warren ls
is "$(theirs ls -q)" "each owner sees only their own" theirs ls -q --all
check "a fork has one too" warren fork web --name copy
check "it gets another" warren rename copy other
run_in other 'mkdir -p a b; echo 1 >a/file; echo 1 >b/file'
check "a part of it is merged" warren promote other --path /home/user/a --apply --force
is a/file "and the rest is not" run_in web 'ls -d a/file b/file 2>/dev/null'
check "undo takes it back, beside the server" warren undo web
check "the web server is started again" warren exec -d web python3 -m http.server 8000
complete_in_bash() {
    eval "$(warren completions bash)"
    COMP_LINE=$1 COMP_POINT=${#1} COMP_CWORD=2
    read -ra COMP_WORDS <<<"$1"
    _warren_and_words warren "${COMP_WORDS[2]}" "${COMP_WORDS[1]}"
    printf '%s\n' "${COMPREPLY[@]}"
}
is other "completions ask for names" complete_in_bash 'warren exec oth'

mkdir -p /var/tmp/project
printf 'one\n' >/var/tmp/project/file
printf 'ignored\n' >/var/tmp/project/.gitignore
printf 'made\n' >/var/tmp/project/ignored
in_project() { (cd /var/tmp/project && timeout 120 warren "$@"); }
prints_in_project() { in_project "$@" 2>/dev/null; }
is one "a project's directory is in its sandbox" prints_in_project up cat file
is 'file' "without what it ignores" in_project up ls
in_project up sh -c 'echo two >file; echo new >made' >/dev/null
box=$(jq -r '.[] | select(.name != "web" and .name != "other") | .sandbox_id' <<<"$(warren ls --json)")
check "changes come back" in_project sync . "$box:project" --from
is two "whole" cat /var/tmp/project/file
printf 'here\n' >/var/tmp/project/file
run_in "$box" 'echo there >project/file'
ends 1 file "what both changed is a conflict" in_project sync . "$box:project"
is here "and is not overwritten" cat /var/tmp/project/file
check "down stops it" in_project down
is there "up finds it again" prints_in_project up cat file
check "down --rm removes it" in_project down --rm

url=$(jq -r .url /var/lib/warren/server.json)
check "a server gets a name" sh -c "echo '$key' | warren context add them '$url' --key -"
is "$(theirs ls -q)" "which commands take" warren --context them ls -q
check "it is taken away" warren context rm them

is '' "the web server in the background runs on" run_in web 'test -n "$(pgrep -f http.server)" || echo gone'
check "all are removed" warren rm web other
check "the other owner's too" theirs rm web
end_server
nothing_left "nothing is left" /var/lib/warren/sandboxes /var/lib/warren/ranges /var/lib/warren/trash
