# Puts files of a build's client in their place. Run by bash, as root, in the sandbox of the build.
#
# $1 is an archive, $2 which of its files, $3 where to, $4 whose they are, $5 their mode or nothing. What is there already stays, and so
# do its rights: a directory is merged into one of the same name.
set -euo pipefail
archive=$1 pattern=$2 target=$3 owner=$4 mode=$5

work=$(mktemp -d "${archive%/*}/files.XXXXXX")
trap 'rm -rf -- "$work" "$archive"; rmdir -- "${archive%/*}" 2> /dev/null || true' EXIT
tar --no-same-owner -xf "$archive" -C "$work"
cd -- "$work"

shopt -s globstar dotglob nullglob
IFS=
entries=(./$pattern)
if [ "${#entries[@]}" -eq 0 ]; then
    echo "there is no file like '$pattern' among those that were sent" >&2
    exit 1
fi

chown -hR -- "$owner" .
if [ -n "$mode" ]; then
    find . -mindepth 1 ! -type l -exec chmod -- "$mode" {} +
fi

make_target() {
    if [ ! -d "$1" ]; then
        mkdir -p -- "$1"
        chown -- "$owner" "$1"
    fi
}

merged=()
is_merged() {
    local directory
    for directory in "${merged[@]}"; do
        case $1 in "$directory"/*) return 0 ;; esac
    done
    return 1
}

for entry in "${entries[@]}"; do
    entry=${entry%/}
    if is_merged "$entry"; then
        continue
    elif [ -d "$entry" ] && [ ! -L "$entry" ]; then
        make_target "$target"
        tar -C "$entry" -cf - . | tar -C "$target" --no-overwrite-dir --keep-directory-symlink -xpf -
        merged+=("$entry")
    elif [ -e "$entry" ] || [ -L "$entry" ]; then
        if [ "${#entries[@]}" -gt 1 ] || [ -d "$target" ] || [ "${target%/}" != "$target" ]; then
            make_target "$target"
            cp -aT --remove-destination -- "$entry" "${target%/}/${entry##*/}"
        else
            make_target "${target%/*}/"
            cp -aT --remove-destination -- "$entry" "$target"
        fi
    else
        echo "there is no file '$pattern' among those that were sent" >&2
        exit 1
    fi
done
