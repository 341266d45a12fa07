# Makes a user, unless there is one of the name. Run by bash, as root, in the sandbox of a build.
#
# $1 is the name, $2 is `true` for one who may become root without a password. It writes the files of accounts itself, since not every
# image has a program for that.
set -euo pipefail
name=$1 sudo=$2

number=1000
while IFS=: read -r other _ used _; do
    [ "$other" != "$name" ] || number=
    [ -n "$number" ] || break
    case $used in *[!0-9]* | '') continue ;; esac
    if [ "$used" -ge "$number" ] && [ "$used" -lt 60000 ]; then number=$((used + 1)); fi
done < /etc/passwd

if [ -n "$number" ]; then
    group=
    while IFS=: read -r other _ used _; do
        [ "$other" != "$name" ] || group=$used
        case $used in *[!0-9]* | '') continue ;; esac
        if [ "$used" -ge "$number" ] && [ "$used" -lt 60000 ]; then number=$((used + 1)); fi
    done < /etc/group
    if [ -z "$group" ]; then
        group=$number
        echo "$name:x:$group:" >> /etc/group
    fi
    echo "$name:x:$number:$group::/home/$name:/bin/bash" >> /etc/passwd
    if [ -f /etc/shadow ]; then echo "$name:!:19000:0:99999:7:::" >> /etc/shadow; fi
fi

home=$(grep "^$name:" /etc/passwd | head -n 1 | cut -d : -f 6)
if [ -n "$home" ] && [ ! -d "$home" ]; then
    mkdir -p -- "$home"
    if [ -d /etc/skel ]; then cp -rT -- /etc/skel "$home"; fi
    chown -R -- "$(grep "^$name:" /etc/passwd | head -n 1 | cut -d : -f 3,4)" "$home"
fi

if [ "$sudo" = true ]; then
    if ! grep -q '^sudo:' /etc/group; then echo 'sudo:x:27:' >> /etc/group; fi
    if ! grep -Eq "^sudo:[^:]*:[^:]*:(.*,)?$name(,.*)?\$" /etc/group; then
        sed -i -E "s/^(sudo:[^:]*:[^:]*:.+)\$/\\1,$name/; s/^(sudo:[^:]*:[^:]*:)\$/\\1$name/" /etc/group
    fi
fi
