"""Pods and PodGroups that a manifest's controllers would make (`netgang what-if -f`): a module a family of kinds."""
