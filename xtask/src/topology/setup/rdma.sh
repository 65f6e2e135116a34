load crc32_generic rdma_rxe ib_uverbs
must rdma link add rxe0 type rxe netdev eth0
wait_for test -c /dev/infiniband/uverbs0
