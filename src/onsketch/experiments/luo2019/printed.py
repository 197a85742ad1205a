"""What table 2 of the paper prints."""

from __future__ import annotations

PRINTED = {
    ("a9a", "adagrad"): 83.4783, ("a9a", "ons"): 83.8264,
    ("a9a", "fd-son, m = 5"): 83.6524, ("a9a", "fd-son, m = 10"): 83.6728, ("a9a", "fd-son, m = 20"): 83.6728,
    ("a9a", "pfd-son, m = 5"): 83.6728, ("a9a", "pfd-son, m = 10"): 83.7138, ("a9a", "pfd-son, m = 20"): 83.6626,
    ("a9a", "rp-son, m = 5"): 83.4374, ("a9a", "rp-son, m = 10"): 83.9492, ("a9a", "rp-son, m = 20"): 83.7650,
    ("a9a", "oja-son, m = 5"): 83.6831, ("a9a", "oja-son, m = 10"): 83.6319, ("a9a", "oja-son, m = 20"): 83.5091,
    ("a9a", "rfd-son, m = 5"): 83.6319, ("a9a", "rfd-son, m = 10"): 83.6831, ("a9a", "rfd-son, m = 20"): 83.9390,
    ("a9a", "rfd-son, ridge 0, m = 5"): 83.2429, ("a9a", "rfd-son, ridge 0, m = 10"): 83.2634,
    ("a9a", "rfd-son, ridge 0, m = 20"): 83.2736,
    ("farm-ads", "adagrad"): 89.3805,
    ("farm-ads", "fd-son, m = 20"): 89.7023, ("farm-ads", "fd-son, m = 30"): 89.9437,
    ("farm-ads", "fd-son, m = 50"): 89.9437, ("farm-ads", "pfd-son, m = 20"): 90.0241,
    ("farm-ads", "pfd-son, m = 30"): 89.8632, ("farm-ads", "pfd-son, m = 50"): 90.0241,
    ("farm-ads", "rp-son, m = 20"): 88.8174, ("farm-ads", "rp-son, m = 30"): 89.7023,
    ("farm-ads", "rp-son, m = 50"): 89.4610, ("farm-ads", "oja-son, m = 20"): 89.0587,
    ("farm-ads", "oja-son, m = 30"): 89.1392, ("farm-ads", "oja-son, m = 50"): 89.1392,
    ("farm-ads", "rfd-son, m = 20"): 89.7828, ("farm-ads", "rfd-son, m = 30"): 89.8632,
    ("farm-ads", "rfd-son, m = 50"): 90.3459, ("farm-ads", "rfd-son, ridge 0, m = 20"): 87.6911,
    ("farm-ads", "rfd-son, ridge 0, m = 30"): 88.8174, ("farm-ads", "rfd-son, ridge 0, m = 50"): 88.8978,
    ("gisette", "adagrad"): 84.1111, ("gisette", "ons"): 96.9444, ("gisette", "rfd-son, m = 20"): 96.9444,
    ("gisette", "rfd-son, ridge 0, m = 20"): 96.8889, ("sido0", "rfd-son, m = 20"): 97.0820,
    ("sido0", "rfd-son, ridge 0, m = 20"): 97.1083, ("rcv1", "rfd-son, m = 50"): 96.1139,
    ("rcv1", "rfd-son, ridge 0, m = 50"): 96.4762, ("real-sim", "rfd-son, m = 50"): 96.4037,
    ("real-sim", "rfd-son, ridge 0, m = 50"): 96.5560,
}  # fmt: skip
"""Test accuracies in per cent that the paper's table 2 prints."""
