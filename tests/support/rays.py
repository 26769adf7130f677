"""A Ray as somebody else runs one: so many nodes of this machine, of one CPU each, until stdin ends."""

import sys

from ray.cluster_utils import Cluster

OBJECTS = 80 << 20


def main(nodes: int) -> None:
    """Is up while stdin is open; writes its address to stdout."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": OBJECTS})
    for _ in range(nodes - 1):
        cluster.add_node(num_cpus=1, object_store_memory=OBJECTS)
    sys.stdout.write(f"{cluster.address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
