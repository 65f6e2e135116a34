load nvme ext4
wait_for test -b /dev/nvme0n1
must mkfs.ext4 -q /dev/nvme0n1
must mount -t ext4 /dev/nvme0n1 /mnt
