wait_for grep -q 3 /sys/devices/system/node/has_memory
