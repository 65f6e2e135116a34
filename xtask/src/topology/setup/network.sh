load virtio_net
wait_for test -e /sys/class/net/eth0
must ip link set eth0 up
# 10.0.0.1 and 10.0.0.2, as the last byte of the card's address says.
must ip addr add "10.0.0.$((0x$(cut -d: -f6 /sys/class/net/eth0/address)))/24" dev eth0
