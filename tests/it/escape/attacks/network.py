# Sockets and the network of the machine.


@attempt("open sockets of other families")
def _():
    families = [(17, 3, 0), (40, 1, 0), (38, 5, 0), (16, 3, 9), (44, 3, 0), (31, 3, 0), (29, 3, 1)]
    def allowed(words):
        try:
            socket.socket(*words).close()
        except OSError as error:
            # Not denied by the filter, but unknown to this kernel.
            if error.errno == errno.EAFNOSUPPORT:
                return
            raise
    return each(families, allowed)


@attempt("open an MPTCP socket")
def _():
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)


@attempt("connect to a Unix socket by path")
def _():
    socket.socket(socket.AF_UNIX).connect(target["path_socket"])


@attempt("connect to an abstract Unix socket")
def _():
    socket.socket(socket.AF_UNIX).connect("\0" + target["abstract_socket"])


@attempt("connect to a port of the machine")
def _():
    return socket.create_connection(("127.0.0.1", target["ports"][0]), timeout=5)


@attempt("connect to a port of the machine over IPv6")
def _():
    return socket.create_connection(("::1", target["ports"][1]), timeout=5)


@attempt("connect to a port of the machine with MPTCP")
def _():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as mptcp:
        mptcp.connect(("127.0.0.1", target["ports"][0]))


@attempt("send a datagram to the machine")
def _():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        # A connected socket learns that the port is closed.
        datagrams.connect(("127.0.0.1", target["udp_port"]))
        datagrams.send(b"x")
        closed = select.poll()
        closed.register(datagrams, 0)
        if closed.poll(2000):
            raise Denied("the port is closed")


@attempt("send to other addresses")
def _():
    # Nothing is sent: this only asks for a route. The second is that of the metadata of clouds.
    def route(address):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
            datagrams.connect((address, 9))
    return each(["192.0.2.1", "169.254.169.254", "10.0.0.1", "2001:db8::1", "fe80::1%lo"], route)


@attempt("take the place of the plane")
def _():
    socket.create_server(("127.0.0.1", target["plane_port"]))
    # A namespace has the same ports. It is an escape if this one is not its own.
    links = [os.readlink("/proc/self/ns/net")]
    if target["network"] not in links:
        raise Denied("another network")
    return links
