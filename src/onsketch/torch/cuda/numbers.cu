// What the host may change from step to step, in this order (see folded_cuda.py).
enum Number {
    RATE, BETA, SQUARES_BETA, EPS, WEIGHT_DECAY, SKETCH_DECAY, RIDGE, DAMPING, POWER
};
