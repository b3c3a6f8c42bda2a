"""A real Kubernetes control plane on this computer, for the tests and for people who want to try netgang.

Why: whether a gang starts whole is decided by kube-scheduler's own code, so the proof has to run on it.
Rule: every program is built from its Go module and runs as a child process on the loopback interface; there
are no containers, nothing is installed, and nothing outside the cache and one temporary directory is written.

- `lab.testbed.programs`: which programs at which versions, and the cache that they are built into;
- `lab.testbed.processes`: child processes, ports, kubeconfigs, configurations;
- `lab.testbed.cluster`: the control plane; `lab.testbed.api`: raw JSON access to it;
- `lab.testbed.parts.service`: netgang as a subprocess; `lab.testbed.objects`: pods, nodes and groups in one line each;
- `lab.testbed.demo` and `python -m lab.testbed`: the cluster for people; `lab.testbed.living`: one in memory.
"""
