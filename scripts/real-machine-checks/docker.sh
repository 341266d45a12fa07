# Sandboxes on images of the distribution's Docker, as its package sets it up.
installed
check "Docker is started" systemctl start docker
image=$(mktemp -d)
mkdir -p "$image"/{etc,root,tmp,usr/bin}
ln -s usr/bin "$image/bin"
for program in sh cat echo sleep tee; do
    file=$(readlink -f "$(type -P "$program")")
    cp "$file" "$image/usr/bin/$program"
    for library in $(ldd "$file" | grep -o '/[^ ]*'); do
        mkdir -p "$image/${library%/*}"
        cp -L "$library" "$image$library"
    done
done
echo 'root:x:0:0:root:/root:/bin/sh' >"$image/etc/passwd"
echo 'root:x:0:' >"$image/etc/group"
check "an image is made" sh -c "tar -C '$image' -c . | docker import - little"
rm -rf "$image"
settings 'backends: {enabled: [native, docker]}'
check "the service is restarted" systemctl restart warren
check "and answers" await healthy
says '^docker +namespaces +works' "docker works" warren backends
says 'snapshots are copies' "doctor tells what it can" sh -c 'warren doctor; true'

before=$(mounts_of_init)
inside() { timeout 120 warren exec "$id" -- sh -c "$1"; }
id=$(timeout 120 warren create --image little --user root --memory 128m)
check "a sandbox is made on the image" test -n "$id"
is one "a command runs in it" inside 'echo one | tee /root/file'
check "a snapshot is taken" warren snapshot "$id" --name one
check "a file is changed" inside 'echo two >/root/file'
check "undo" warren undo "$id"
is one "has the file of before" inside 'cat /root/file'
check "it is stopped" warren stop "$id"
check "and started again" timeout 120 warren resume "$id"
is one "with its files" inside 'cat /root/file'
check "the service is restarted" systemctl restart warren
check "and answers again" await healthy
is one "what ran on the image runs on" inside 'cat /root/file'
check "Docker is restarted" systemctl restart docker
reached() { warren resume "$id"; inside true; }
check "its sandboxes can be had again" await reached
is one "with their files" inside 'cat /root/file'
check "it is removed" warren rm "$id"
no_containers() { [ -z "$(docker ps -aq)" ]; }
check "no container is left" await no_containers
is "$before" "the machine's mounts are what they were" mounts_of_init
settings
systemctl restart warren
await healthy
systemctl --quiet stop docker.service docker.socket containerd.service
