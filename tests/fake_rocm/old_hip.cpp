// A libamdhip64 from before there was most of what Hearth needs.
extern "C" __attribute__((visibility("default"))) int hipInit(unsigned) { return 0; }
