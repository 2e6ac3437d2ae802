"""A poor man's OmegaConf: attribute access, ${...} references, key=value overrides."""

import re

import yaml


class Conf(dict):
    __getattr__ = dict.__getitem__

    @classmethod
    def wrap(cls, x):
        if isinstance(x, dict):
            return cls((k, cls.wrap(v)) for k, v in x.items())
        return [cls.wrap(v) for v in x] if isinstance(x, list) else x


def load(path, overrides=()):
    with open(path) as f:
        conf = Conf.wrap(yaml.safe_load(f))
    for item in overrides:
        key, _, value = item.partition("=")
        *parents, last = key.split(".")
        node = conf
        for p in parents:
            node = node[p]
        if last not in node:
            raise KeyError(f"no such setting: {key}")
        node[last] = Conf.wrap(yaml.safe_load(value))
    return conf


def resolve(conf, **known):
    for k, v in conf.items():
        if isinstance(v, dict):
            resolve(v, **known)
        elif isinstance(v, str) and (m := re.fullmatch(r"\$\{(\w+)\}", v)):
            conf[k] = known[m[1]]
    return conf
