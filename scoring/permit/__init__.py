"""Hold and commit the binds of one gang: kube-scheduler's Permit point, as a state machine without I/O.

Theory. kube-scheduler asks for one pod at a time and waits for the answer. A gang starts whole only if no Binding is
posted before enough members are at bind, so a request is *held* until quorum; then all held ones become *posting*, and
a posting becomes *bound* when the API server confirms it:

    BindRequested → held ──quorum──→ posting ──MemberBound──→ bound      success is answered here, and only here
                      │                 └─────BindFailed────→ (gone)     this member's error; the others go on
                      └── deadline, lost node, lost room, … → (gone)     all held members fail together

N Bindings are N calls, so some can fail. Nothing is taken back then (roll-forward): the gang is *partial*, its bound
members count towards quorum, and the missing ones are posted as soon as all of them are at bind again. A gang that was
never whole and stays partial for `partial_timeout_s` is evicted, so that it does not hold resources dead.

Rules: every request gets exactly one answer (or its client is gone); every member that leaves held or posting unbound
is released to the planner; the same events with the same quorums give the same instructions.

- `protocol`: events in, instructions out, and what is remembered     - `machine`: `handle`, one step
- `scoring.feasibility.quorum`: which members must be there
"""
