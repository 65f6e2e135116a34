load nfit nd_pmem device_dax dax_pmem ext4 cxl_acpi cxl_pci cxl_mem cxl_pmem
wait_for test -e /sys/bus/nd/devices/namespace0.0
wait_for test -e /sys/bus/nd/devices/namespace1.0
must ndctl create-namespace --force --reconfig=namespace0.0 --mode=fsdax --map=mem
must ndctl create-namespace --force --reconfig=namespace1.0 --mode=devdax --map=mem
wait_for test -e /dev/pmem0
wait_for test -e /dev/dax1.0
must mkfs.ext4 -q -b 4096 -O ^has_journal /dev/pmem0
must mount -t ext4 -o dax=always /dev/pmem0 /mnt
