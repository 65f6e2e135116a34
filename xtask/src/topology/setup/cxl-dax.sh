echo offline >/sys/devices/system/memory/auto_online_blocks
load cxl_acpi cxl_pci cxl_mem device_dax dax_cxl
wait_for test -e /sys/bus/cxl/devices/mem0
must cxl create-region -d decoder0.0 -t ram -m mem0
wait_for test -e /sys/bus/dax/devices/dax0.0
# No driver is bound to it yet; that of system RAM would be the kernel's choice.
must daxctl reconfigure-device --mode=devdax dax0.0
wait_for test -e /sys/bus/dax/devices/dax0.0/driver
wait_for test -e /dev/dax0.0
