"""The frontier: a queue of requests by host, and the state of each host.

The design is Mercator's (Heydon and Najork, "Mercator: A scalable, extensible Web
crawler", 1999): a back queue for each host, and an order of the hosts that are ready.
"""
