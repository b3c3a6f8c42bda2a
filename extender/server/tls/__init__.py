"""TLS of our own ports: whose certificate we show, whose we demand, and how both change while calls are held.

Why: the extender protocol knows no credentials, so a client certificate is the only proof that a Binding is asked for
by kube-scheduler; and certificates are renewed by a kubelet or a person while the process runs.
"""
