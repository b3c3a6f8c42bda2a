"""Changes that netgang makes in the cluster besides Bindings: it wakes parked pods and removes partial gangs.

Level-triggered: what is to be done is derived from the plan and the cache again and again, so a lost patch is not a
lost pod. Bounded in queue and concurrency; failures are counted and come back by themselves.
"""
