"""Nodes of a cluster over a model of Pulsar, in virtual time: everything left to chance comes from one seed.

* `clock`: the events in their order, the one source of chance
* `pulsar`: two topics, the names of producers, connections, and what was measured of them
* `shell`: the model of the shell around the state machine
* `process`: a bridge process, and what may happen to it
* `checks`: what must hold, at every record and at the end
* `scenario`: which faults a seed means
* `seeds`: many of them, on all cores
* `mutations`: the rules of the state machine switched off, one at a time
"""
