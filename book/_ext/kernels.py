"""Kernels talk to the build through sockets in the file system, where there are any, and not over TCP ports.

Ports can be taken by another program between the moment they are chosen and the moment they are opened (a build that
fails for no reason of its own), and recent kernels warn of TCP on every start.
"""

import os

from jupyter_client.connect import ConnectionFileMixin


def setup(app):
    if os.name == "posix":
        ConnectionFileMixin.transport.default_value = "ipc"
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
