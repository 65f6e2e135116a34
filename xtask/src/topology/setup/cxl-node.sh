# The kernel must not online the memory by itself, or daxctl refuses to.
echo offline >/sys/devices/system/memory/auto_online_blocks
load cxl_acpi cxl_pci cxl_mem device_dax dax_cxl kmem
wait_for test -e /sys/bus/cxl/devices/mem0
must cxl create-region -d decoder0.0 -t ram -m mem0
wait_for test -e /sys/bus/dax/devices/dax0.0
must daxctl reconfigure-device --mode=system-ram dax0.0
