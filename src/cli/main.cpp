#include "cli/program.h"

int main(int argc, char** argv) { return coda::cli::run({argv + 1, argv + argc}); }
