{
  description = "Bridge Service: development shell";

  inputs.nixpkgs.url = "nixpkgs/nixos-unstable";

  outputs =
    { nixpkgs, ... }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      shell = system: with nixpkgs.legacyPackages.${system}; {
        default = mkShell {
          packages = [ nodejs_24 postgresql git ];
        };
      };
    in
    {
      devShells = nixpkgs.lib.genAttrs systems shell;
    };
}
