# nix run            runs the service in this folder, as the main job
# nix run .#admin    operates it
# nix develop        Node, git and PostgreSQL's tools
# A test evaluates all of this against a stub of nixpkgs; nobody has built it against the real one yet.
{
  description = "Bridge Service";

  inputs.nixpkgs.url = "nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      package = pkgs: pkgs.callPackage ./deploy/nix/package.nix { commit = self.rev or ""; };
      run = pkgs: name: command: {
        type = "app";
        program = toString (pkgs.writeShellScript name "exec ${package pkgs}/bin/${command} \"$@\"");
      };
    in
    {
      packages = each (pkgs: { default = package pkgs; });
      apps = each (pkgs: {
        default = run pkgs "start" "bridge-service start";
        admin = run pkgs "admin" "service-admin";
        bridge = run pkgs "bridge" "bridge-service bridge";
      });
      checks = each (pkgs: { package = package pkgs; });
      devShells = each (pkgs: {
        default = with pkgs; mkShell { packages = [ nodejs_24 postgresql git ]; };
      });
      nixosModules.default = import ./deploy/nix/module.nix self;
    };
}
