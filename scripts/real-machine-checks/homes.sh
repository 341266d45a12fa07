# The data directory on other file systems, each with a few lives in it. The service goes on beside
# them, on the root.
home=/srv/home
export WARREN_DATA_DIR=$home/warren

# live NAME [SETTING...]: what is done in every home.
live() {
    local name=$1 id fork
    shift
    check "$name: doctor is content" warren doctor
    serve_by_hand "$@"
    id=$(warren create)
    is one "$name: a command runs" run_in "$id" 'echo one | tee /tmp/file'
    run_in "$id" 'echo two > /tmp/file'
    check "$name: undo" warren undo "$id"
    # Looking is no change, so that what was undone can still be had again.
    is one "$name: the file of before" run_in "$id" 'cat /tmp/file'
    check "$name: redo" warren redo "$id"
    is two "$name: the file of after" run_in "$id" 'cat /tmp/file'
    fork=$(warren fork "$id")
    is two "$name: a fork has it" run_in "$fork" 'cat /tmp/file'
    warren stop "$id" >/dev/null
    warren resume "$id" >/dev/null
    is two "$name: stopped and resumed" run_in "$id" 'cat /tmp/file'
    warren rm "$id" "$fork"
    end_server
    nothing_left "$name: nothing is left" "$WARREN_DATA_DIR/sandboxes" "$WARREN_DATA_DIR/ranges"
}

full() {
    ends 1 'No space left|quota' "$1: bytes are limited" warren run --disk 16m -- dd if=/dev/zero of=/tmp/x bs=1M count=64
}

# at NAME MAKE MOUNT: a new file system on the second disk.
at() {
    mkdir -p "$home"
    if ! mountpoint -q "$home"; then
        { eval "$2 && mount $3 $home"; } >/var/tmp/home.log 2>&1 || note failed "$1: the file system is made" "$(cat /var/tmp/home.log)"
    fi
}

systemctl stop warren
at ext4 'mkfs.ext4 -qF -O project,quota /dev/vdb' '-o prjquota /dev/vdb'
says 'project' "ext4: disk limits are project quotas" warren doctor
live ext4
full ext4
many='i=0; while [ $i -lt 300 ]; do : > /tmp/$i; i=$((i+1)); done'
ends 2 'No space left|quota' "ext4: inodes are limited" warren run --disk 16m --inodes 100 -- sh -c "$many"
nothing_left "ext4: nothing is left of those" "$WARREN_DATA_DIR/sandboxes"
umount "$home"
at xfs 'mkfs.xfs -qf /dev/vdb' '-o pquota /dev/vdb'
says 'project' "xfs: disk limits are project quotas" warren doctor
full xfs
umount "$home"
at 'xfs without quota' true '/dev/vdb'
live 'xfs, reflink' --set snapshots.driver=reflink
umount "$home"
at btrfs 'mkfs.btrfs -qf /dev/vdb' '/dev/vdb'
live 'btrfs, subvolumes' --set snapshots.driver=btrfs
umount "$home"
at tmpfs true '-t tmpfs -o size=1g,mode=755 home'
# Only kernels from 6.3 on map ids there.
ends 125 'data directory on ext4, XFS or btrfs' "tmpfs: doctor says what to do on this kernel" warren doctor
ends 125 'id-mapped' "tmpfs: a run says why it cannot" warren run -- true
umount "$home"
unset WARREN_DATA_DIR
systemctl start warren
