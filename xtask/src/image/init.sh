#!/busybox sh
# The first program of a guest: mounts what the host shares, sets the topology's memory up, runs the
# host's job and turns the machine off.
#
#   /tree      the image's programs, which /usr is a link into; read-only
#   /programs  what the host passed in; read-only
#   /exchange  written by both: the job, and what comes of it
#   /shared    a folder that two machines have in common, where the topology has one

/busybox --install -s /early 2>/dev/null
PATH=/early
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in /early/*.ko; do insmod "$module"; done
share() { # TAG FOLDER OPTIONS
    mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$3" "$1" "$2"
}
share tree /tree ro,cache=loose
share programs /programs ro,cache=loose
share exchange /exchange rw,cache=none,access=any
grep -q shared /sys/bus/virtio/devices/*/mount_tag 2>/dev/null && share shared /shared rw,cache=none,access=any
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t debugfs debugfs /sys/kernel/debug
ip link set lo up

export PATH=/usr/bin:/usr/sbin:/early HOME=/root OUT=/out TMPDIR=/tmp RUST_BACKTRACE=1

leave() {
    dmesg >/exchange/dmesg
    sync
    poweroff -f
    sleep 60
}
# For a topology's setup: gives up with a message.
fail() {
    echo "$*" >>/exchange/setup-failed
    leave
}
# Loads modules. The full path, because busybox prefers its own.
load() {
    for name; do /usr/sbin/modprobe "$name" || fail "cannot load module $name"; done
}
# Waits until the command succeeds.
wait_for() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || fail "waited in vain for: $*"
        sleep 0.1
    done
}
# Runs a command of the setup, which must succeed.
must() {
    "$@" >/tmp/must 2>&1 || fail "$* failed: $(cat /tmp/must)"
}
# Runs a step of the job: NUMBER SECONDS COMMAND...
step() {
    folder=/exchange/steps/$1
    limit=$2
    shift 2
    (cd /tmp && exec timeout -s KILL "$limit" "$@") >"$folder/stdout" 2>"$folder/stderr" </dev/null
    echo $? >"$folder/exit.new"
    mv "$folder/exit.new" "$folder/exit"
}

. /exchange/setup
touch /exchange/ready
. /exchange/job
leave
